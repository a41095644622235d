custom-marker:
  marker.present:
    - name: {{ pillar.root }}/marker
    - text: {{ salt['shout.loud']('custom') }}
