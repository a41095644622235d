#!jinja|json
{"rendered-by-json": {"file.managed": [{"name": "{{ pillar.root }}/rendered-by-json"}, {"contents": "json"}]}}
