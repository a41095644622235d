proxy:
  environ.setenv:
    - name: STATES_TEST_PROXY
    - value: http://proxy.example:3128
  test.check_pillar:
    - present: [root, role]
    - string: root
