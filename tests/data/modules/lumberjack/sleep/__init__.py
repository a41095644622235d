def all_night(person):
    return "Palin" in person
