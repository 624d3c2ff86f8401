import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { packageFolder } from "../local/doors.ts";
import { wranglerRefusal, wranglerVersion } from "../local/wrangler.ts";
import { nodeRefusal } from "../node-version.js";
import { managerOf } from "../package-manager.ts";
import type { Project } from "../project.ts";
import type { Finding } from "./finding.ts";

const MILLRACE = packageFolder();

interface Manifest {
  version: string;
  peerDependencies?: Record<string, string>;
  peerDependenciesMeta?: Record<string, { optional?: boolean }>;
}

const manifestIn = (folder: string) => JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;

/** Checks the versions of Node, wrangler and the packages of a project. */
export function versionsOf(project: Project): Record<string, string> {
  const found = ["workerd", ...Object.keys(manifestIn(MILLRACE).peerDependencies ?? {})].flatMap((name) => {
    const folder = folderOf(name, name === "workerd" ? project.wrangler : join(project.root, "package.json"));
    return folder === undefined ? [] : [[name, manifestIn(folder).version]];
  });
  return {
    node: process.versions.node,
    wrangler: wranglerVersion(project.wrangler),
    millrace: manifestIn(MILLRACE).version,
    ...Object.fromEntries(found),
  };
}

export function packageFindings(project: Project): Finding[] {
  const refusals = [nodeRefusal(process.versions.node), wranglerRefusal(project.wrangler)];
  return [
    ...refusals.flatMap((says) => (says === undefined ? [] : [{ code: "version_old", says }])),
    ...Object.entries(manifestIn(MILLRACE).peerDependencies ?? {}).flatMap(([name, range]) => peer(project, name, range)),
  ];
}

function peer({ root }: Project, name: string, range: string): Finding[] {
  const { add, dedupe } = managerOf(root);
  const line = `${add} ${name}@${range}`;
  const own = folderOf(name, join(root, "package.json"));
  if (own === undefined && manifestIn(MILLRACE).peerDependenciesMeta?.[name]?.optional) return [];
  if (own === undefined) return [{ code: "package_missing", says: `The package ${name} is not installed. Run:`, line }];
  const { version } = manifestIn(own);
  if (!isIn(version, range))
    return [{ code: "package_old", says: `${name} ${version} is outside of ${range}, which the engine needs. Run:`, line }];
  const engines = folderOf(name, join(MILLRACE, "package.json"));
  if (engines === undefined || engines === own) return [];
  const says = `There are two copies of ${name}: ${version} in ${own}, ${manifestIn(engines).version} in ${engines}. One copy does not recognise objects of the other. Run:`;
  return [{ code: "package_twice", says, line: `${line} && ${dedupe(name)}` }];
}

function folderOf(name: string, from: string): string | undefined {
  for (const folder of createRequire(from).resolve.paths(name) ?? []) {
    const manifest = join(folder, name, "package.json");
    if (existsSync(manifest)) return dirname(realpathSync(manifest));
  }
  return undefined;
}

/** True if a version matches a range such as `^1.2.3`. */
function isIn(version: string, range: string): boolean {
  const numbers = (text: string) => text.replace(/^\D+/, "").split(/[.-]/).map(Number);
  const [[major = 0, ...rest], [least = 0, ...leastRest]] = [numbers(version), numbers(range)];
  const [minor = 0, patch = 0] = rest;
  const [leastMinor = 0, leastPatch = 0] = leastRest;
  return major === least && (minor > leastMinor || (minor === leastMinor && patch >= leastPatch));
}
