#!/bin/sh
# Puts kustomize and docker-compose (which renders its files without an engine) into the directory $1,
# from Debian 13, without touching this machine's own packages and without privileges: Debian 12 lacks
# them, and the two programs need no more than its libc.
set -eu
suite=trixie
here=$(mktemp -d)
trap 'rm -r "$here"' EXIT
mkdir -p "$here/lists/partial" "$here/archives/partial"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$here/sources"
cat >"$here/conf" <<EOF
Dir::Etc::sourcelist "$here/sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$here/lists";
Dir::Cache "$here";
APT::Sandbox::User "";
EOF
export APT_CONFIG="$here/conf"
apt-get update -qq
(cd "$here" && apt-get download -qq "kustomize/$suite" "docker-compose/$suite")
for package in "$here"/*.deb; do dpkg-deb -x "$package" "$here/files"; done
install "$here/files/usr/bin/kustomize" "$here/files/usr/libexec/docker/cli-plugins/docker-compose" "$1"
