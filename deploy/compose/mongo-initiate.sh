#!/bin/bash
# Makes the replica set and the daemons' user, or finds them: run by compose until it has succeeded once, and harmless after.
set -euo pipefail
password=$(cat /run/secrets/mongo-password)
# mongodb://functory:PASSWORD@... : the daemons' own user has a password of its own, out of their URL.
own_password=$(sed -n 's|^mongodb://functory:\([^@]*\)@.*|\1|p' /run/secrets/store-url)
[ -n "$own_password" ] || { echo "secrets/store-url is not mongodb://functory:PASSWORD@...; run prepare.sh" >&2; exit 1; }
export own_password

mongosh --quiet --host mongo-1 --username admin --password "$password" --authenticationDatabase admin --eval '
  const members = ["mongo-1", "mongo-2", "mongo-3"].map((host, index) => ({ _id: index, host: `${host}:27017` }));
  try {
    rs.initiate({ _id: "rs0", members });
    print("replica set: made");
  } catch (error) {
    if (error.codeName !== "AlreadyInitialized") throw error;
    print("replica set: there");
  }
  for (let left = 120; !db.hello().isWritablePrimary && !db.hello().primary; left--) {
    if (left === 0) throw new Error("no primary was elected within a minute");
    sleep(500);
  }'
# By the set's name, so that it is the primary that is asked, whichever that is.
mongosh --quiet "mongodb://mongo-1,mongo-2,mongo-3/admin?replicaSet=rs0" --username admin --password "$password" --eval '
  const functory = db.getSiblingDB("functory");
  const roles = [{ role: "readWrite", db: "functory" }];
  const pwd = process.env.own_password;
  if (functory.getUser("functory")) {
    functory.updateUser("functory", { pwd, roles });
  } else {
    functory.createUser({ user: "functory", pwd, roles });
  }
  print("user functory: there");'
