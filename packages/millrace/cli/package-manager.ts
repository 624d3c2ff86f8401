import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/** The commands of a package manager. `lock` is the file that shows that a project uses the package manager. */
interface Manager {
  readonly name: string;
  readonly lock: string;
  /** Installs given packages. */
  readonly add: string;
  readonly dedupe: (name: string) => string;
}

const NPM: Manager = { name: "npm", lock: "package-lock.json", add: "npm install", dedupe: (name) => `npm dedupe ${name}` };
const MANAGERS: readonly Manager[] = [
  NPM,
  { name: "pnpm", lock: "pnpm-lock.yaml", add: "pnpm add", dedupe: () => "pnpm dedupe" },
  { name: "yarn", lock: "yarn.lock", add: "yarn add", dedupe: (name) => `yarn dedupe ${name}` },
];

/** The package manager of a folder or file: its lock file is in this folder or in the nearest folder above. Default: npm. */
export function managerOf(from: string): Manager {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const found = MANAGERS.find(({ lock }) => existsSync(join(folder, lock)));
    if (found !== undefined || folder === dirname(folder)) return found ?? NPM;
  }
}
