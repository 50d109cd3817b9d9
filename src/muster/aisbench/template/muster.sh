# Finds Muster, for scripts that source this file: $MUSTER, `muster` on the PATH, or a module of python3.
if [ -n "$MUSTER" ]; then
    read -ra muster <<< "$MUSTER"
    if ! command -v "${muster[0]}" > /dev/null; then
        echo "MUSTER names ${muster[0]}, which cannot be run. Set it to the command of Muster, or unset it." >&2
        return 1
    fi
elif command -v muster > /dev/null; then
    muster=(muster)
elif python3 -c 'import muster.cli' 2> /dev/null; then
    muster=(python3 -m muster)
else
    echo "Muster is not installed. Run \`pip install .\` in a checkout of it, or set MUSTER to its command." >&2
    return 1
fi
