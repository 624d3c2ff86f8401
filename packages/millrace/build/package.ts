// Builds `dist`, or another folder that is named: JavaScript and declarations of the library, the compiled command line, the console.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { packedConsole } from "../cli/local/console.ts";

const PACKAGE = join(import.meta.dirname, "..");
const [, , DIST = join(PACKAGE, "dist")] = process.argv;
const TSC = join(PACKAGE, "../../node_modules/typescript/bin/tsc");

rmSync(DIST, { recursive: true, force: true });
// Types are checked by `npm run check`. Comments stay in the declarations, where an editor shows them, and leave the JavaScript.
compile("tsconfig.build.json", "--declaration", "false", "--removeComments", "--noResolve");
compile("tsconfig.types.json");
const built = "src/http/console/built";
await packedConsole(join(DIST, "assets"), join(DIST, `${built}.js`));
cpSync(join(PACKAGE, `${built}.d.ts`), join(DIST, `${built}.d.ts`));
removeUnreachableDeclarations();

function compile(project: string, ...options: string[]): void {
  execFileSync(process.execPath, [TSC, "-p", join(PACKAGE, project), "--noCheck", "--outDir", DIST, ...options], { stdio: "inherit" });
}

/** A declaration that no entry point leads to is read by nobody. */
function removeUnreachableDeclarations(): void {
  const { exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
    exports: Record<string, string | { types: string }>;
  };
  const reached = new Set(Object.values(exports).flatMap((to) => (typeof to === "string" ? [] : [to.types.replace("./dist", DIST)])));
  for (const file of reached) {
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)\.[jt]s"/g)) {
      const declaration = join(dirname(file), `${name}.d.ts`);
      if (existsSync(declaration)) reached.add(declaration);
    }
  }
  for (const name of readdirSync(DIST, { recursive: true, encoding: "utf8" }))
    if (name.endsWith(".d.ts") && !reached.has(join(DIST, name))) rmSync(join(DIST, name));
}
