notify:
  event.send:
    - name: app/deployed
    - data: {version: '1.2'}
called:
  module.run:
    - test.echo:
      - text: hello
