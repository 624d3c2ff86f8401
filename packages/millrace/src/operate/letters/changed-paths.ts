const MAX_PATHS = 20;

/** The dotted paths at which two JSON values differ, in the order of the fields of `before`. The result has at most 20 paths. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  const pending = [{ path: "", before, after }];
  for (let one = pending.pop(); one !== undefined && paths.length < MAX_PATHS; one = pending.pop()) {
    const { path } = one;
    const [was, is] = [one.before, one.after];
    if (was === is) continue;
    if (!isNode(was) || !isNode(is) || Array.isArray(was) !== Array.isArray(is)) {
      paths.push(path);
      continue;
    }
    const fields = [...new Set([...Object.keys(was), ...Object.keys(is)])];
    const inner = fields.map((field) => ({ path: path === "" ? field : `${path}.${field}`, before: was[field], after: is[field] }));
    pending.push(...inner.reverse());
  }
  return paths;
}

function isNode(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
