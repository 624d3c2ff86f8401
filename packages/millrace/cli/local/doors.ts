import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";

const PACKAGE = packageFolder();

/** The folder of the package. It is the parent folder of `cli` in the repository, and of `dist/cli` in an installed package. */
export function packageFolder(): string {
  const above = join(import.meta.dirname, "../..");
  return existsSync(join(above, "package.json")) ? above : join(above, "..");
}

/**
 * The source file of each entry point of the package, so that bundles and tests in the repository need no build. Empty for an installed
 * package, which has no sources.
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

/** The path of a module in the same folder as `file`, with the same extension: .ts in the repository, .js in the package. */
export function besideOf(file: string, name: string): string {
  return join(dirname(file), `${name}${extname(file)}`);
}
