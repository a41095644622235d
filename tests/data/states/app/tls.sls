include:
  - app
extend:
  app-folder:
    file:
      - mode: '0750'
app-tls:
  file.managed:
    - name: {{ pillar.root }}/srv/app/tls.pem
    - contents_pillar: tls:cert
    - mode: '0600'
    - show_changes: False
    - require:
      - file: app-folder
