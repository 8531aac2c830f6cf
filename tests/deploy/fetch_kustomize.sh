#!/bin/sh
# Puts kustomize into the directory $1, from Debian 13, without touching this machine's own packages:
# Debian 12 has none, and the binary needs no more than libc 2.34. Needs no privileges.
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
(cd "$here" && apt-get download -qq "kustomize/$suite")
dpkg-deb -x "$here"/kustomize_*.deb "$here/package"
install "$here/package/usr/bin/kustomize" "$1/kustomize"
