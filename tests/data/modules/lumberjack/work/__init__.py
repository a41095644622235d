def all_day(person):
    return person.startswith("Michael")
