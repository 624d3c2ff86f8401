import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** The source folders, and the name that the tests in test/house give to each: the app's folders have their own names. */
const FOLDERS: readonly (readonly [folder: string, name: string])[] = [
  ["packages/millrace/src", "engine"],
  ["packages/millrace/cli", "cli"],
  ["packages/millrace/console", "console"],
  ["src", ""],
];

export interface Source {
  /** Relative to its folder name: `engine/store/tokens.ts`, `cli/start.ts`, `systems/crm/link.ts`. */
  readonly file: string;
  /** Relative to the root of the repository. */
  readonly path: string;
  readonly text: string;
}

/** Every TypeScript file of the library and of the app. */
export function sources(pattern = /\.tsx?$/): Source[] {
  return FOLDERS.flatMap(([folder, name]) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => pattern.test(file))
      .map((file) => ({ file: join(name, file), path: join(folder, file), text: readFileSync(join(ROOT, folder, file), "utf8") })),
  );
}

/** The name that test/house gives to a path from the root of the repository; the path itself if it is not a source. */
export function houseName(path: string): string {
  const [folder, name] = FOLDERS.find(([folder]) => path.startsWith(`${folder}/`)) ?? ["", ""];
  return folder === "" ? path : join(name, path.slice(folder.length + 1));
}
