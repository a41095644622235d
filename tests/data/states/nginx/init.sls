include:
  - nginx.config
  - nginx.sites
