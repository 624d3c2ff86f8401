import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGE = join(import.meta.dirname, "../..");

/**
 * The entry points of the package, each with its source file: in the repository, bundles and tests are made from sources, so that a change
 * needs no build. Empty where the package is installed, which holds no sources.
 */
export function sourceDoors(): Record<string, string> {
  if (!existsSync(join(PACKAGE, "src/index.ts"))) return {};
  const { name, exports } = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")) as {
    name: string;
    exports: Record<string, string | { default: string }>;
  };
  return Object.fromEntries(
    Object.entries(exports).flatMap(([door, to]) =>
      typeof to === "string" ? [] : [[join(name, door), join(PACKAGE, to.default.replace(/^\.\/dist\/(.*)\.js$/, "$1.ts"))]],
    ),
  );
}
