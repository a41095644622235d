"""How the minion runs jobs: journal, spool, job processes, and their requests to the master."""
