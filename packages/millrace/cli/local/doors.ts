import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";

const PACKAGE = packageFolder();

/** The folder of the package: above `cli` in the repository, above `dist/cli` where the package is installed. */
export function packageFolder(): string {
  const above = join(import.meta.dirname, "../..");
  return existsSync(join(above, "package.json")) ? above : join(above, "..");
}

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

/** A file in the folder of another one, in the same language: the package holds JavaScript alone. */
export function besideOf(file: string, name: string): string {
  return join(dirname(file), `${name}${extname(file)}`);
}
