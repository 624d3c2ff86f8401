import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join, resolve } from "node:path";

/** Published packages, run unchanged. None of them is a dependency of this project: together they have some hundred MB. */
const PACKAGES = {
  "@wp-playground/cli": "3.1.56",
  "@wp-playground/wordpress-builds": "0.9.19",
  "@atproto/dev-env": "0.6.7",
  "@genkit-ai/telemetry-server": "1.43.0",
} as const;

type Package = keyof typeof PACKAGES;

/**
 * The folder of an installed package; undefined if it is not installed. Searched from this checkout up, and in the `node_modules` folders
 * of `E2E_PACKAGES`.
 */
export function folderOf(name: Package): string | undefined {
  const named = (process.env.E2E_PACKAGES ?? "").split(delimiter).filter(Boolean);
  const above = createRequire(import.meta.url).resolve.paths(name) ?? [];
  return [...named, ...above].map((place) => resolve(place, name)).find((folder) => existsSync(join(folder, "package.json")));
}

/** The command that installs packages outside of package.json. */
export function installing(names: readonly Package[]): string {
  return `npm install --no-save ${names.map((name) => `${name}@${PACKAGES[name]}`).join(" ")}`;
}
