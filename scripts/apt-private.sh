# Sourced by the get-*.sh scripts: an apt that keeps lists, cache and sources in a temporary folder of its own, so that
# packages of another suite or architecture can be downloaded without root and without changing the machine.

# PrivateApt "ARCH..." "SUITE COMPONENT": sets $apt (folder, removed on exit; $apt/debs is for downloads) and
# $apt_options, and updates the lists. The mirror is the one that the machine's own sources name.
PrivateApt() {
  local arch site
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/debs" "$apt/empty"
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | sed 's|/*$||' |
    grep -v security | grep -m1 '/debian$' || true)
  [ -n "$site" ] || site=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(SITE)' 2>/dev/null |
    sed -n 's/^Debian Debian //p' | sed -n 1p)
  if [ -z "$site" ]; then
    echo "error: no Debian mirror among this machine's apt sources" >&2
    exit 1
  fi
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $2" > "$apt/sources.list"
  # A mirror may be a snapshot whose Release file has expired; its signature is checked all the same.
  apt_options=(-o Acquire::Check-Valid-Until=false -o Acquire::Retries=3 -o APT::Sandbox::User="$(id -un)"
    -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts="$apt/empty"
    -o Dir::Etc::preferencesparts="$apt/empty" -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt"
    -o APT::Architecture=amd64)
  for arch in $1; do apt_options+=(-o "APT::Architectures::=$arch"); done
  apt-get "${apt_options[@]}" update -qq
}
