// The files of a folder that was chosen or dropped, without what is no code, in the order in which the server wants them.
import makeIgnore from '../vendor/ignore.mjs';

/** Files that were chosen: [path in the folder, file]. */
export const ofInput = (files) => {
  const list = [...files];
  const folder = list[0]?.webkitRelativePath.split('/')[0] ?? '';
  return { folder, files: list.map((file) => [file.webkitRelativePath.split('/').slice(1).join('/') || file.name, file]) };
};

const children = async (reader) => {
  const found = [];
  for (;;) { // browsers give a hundred at a time
    const some = await new Promise((done, failed) => { reader.readEntries(done, failed); });
    if (!some.length) return found;
    found.push(...some);
  }
};

/** Files that were dropped. One folder is the code itself; of several things each is in it. */
export const ofDrop = async (transfer, most) => {
  const roots = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const single = roots.length === 1 && roots[0].isDirectory;
  const files = [];
  const walk = async (entry, path) => {
    if (files.length > most) return;
    if (entry.isFile) files.push([path, await new Promise((done, failed) => { entry.file(done, failed); })]);
    else for (const one of await children(entry.createReader())) await walk(one, path ? `${path}/${one.name}` : one.name);
  };
  for (const root of roots) await walk(root, single ? '' : root.name);
  return { folder: single ? roots[0].name : roots.map((one) => one.name).join(', '), files };
};

/** Leaves out version control, environments, caches, and what the ignore file of the folder names. */
export const onlyCode = async (files, limits) => {
  const rules = files.find(([path]) => path === limits.file);
  const ignore = rules ? makeIgnore({ allowRelativePaths: true }).add(await rules[1].text()) : null;
  const environments = new Set(files.filter(([path]) => limits.marks.some((mark) => path.endsWith(`/${mark}`) || path.includes(`/${mark}/`)))
    .map(([path]) => limits.marks.reduce((found, mark) => found.split(new RegExp(`/${mark.replace('.', '\\.')}(/|$)`))[0], path)));
  const inEnvironment = (path) => [...environments].some((folder) => path.startsWith(`${folder}/`));
  const isCode = (path) => {
    const parts = path.split('/');
    if (parts.some((part) => limits.ignored.includes(part) || part.endsWith(limits.ending)) || inEnvironment(path)) return false;
    return !ignore?.ignores(path);
  };
  return files.filter(([path]) => isCode(path));
};

/** Compares as the server does: by characters, not by halves of them. */
export const byName = (first, second) => {
  const [left, right] = [[...first], [...second]];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = left[at].codePointAt(0) - right[at].codePointAt(0);
    if (difference) return difference;
  }
  return left.length - right.length;
};

/** All directories above files. */
export const foldersOf = (paths) => {
  const found = new Set();
  for (const path of paths) path.split('/').slice(0, -1).forEach((_, at, parts) => found.add(parts.slice(0, at + 1).join('/')));
  return [...found];
};
