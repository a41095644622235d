cleanup-tmp:
  file.absent:
    - names:
      - {{ pillar.root }}/tmp/one
      - {{ pillar.root }}/tmp/two
cleanup-never:
  test.fail_without_changes:
    - onfail:
      - file: cleanup-tmp
cleanup-slot:
  test.show_notification:
    - text: __slot__:salt:grains.get(id)
    - order: last
