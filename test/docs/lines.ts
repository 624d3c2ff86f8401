/** Lines of code: without blank lines, comments and imports. For TypeScript, SQL and JSON with comments. */
export function linesOf(code: string): number {
  const bare = code
    .replaceAll(/^import\b[^;]*;$/gm, "")
    .replaceAll(/^\s*\/\*[\s\S]*?\*\/$/gm, "")
    .replaceAll(/^\s*(\/\/|--).*$/gm, "");
  return bare.split("\n").filter((line) => line.trim() !== "").length;
}
