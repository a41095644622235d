#!/bin/sh
# {{ grains.id }}
echo "$1" > migrated
