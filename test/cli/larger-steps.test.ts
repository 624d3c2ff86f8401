import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT, WRANGLER } from "../../src/cli/local/wrangler.ts";

/** Says by how much the package's buffer grows where somebody loads it. */
const SAYS = `data:text/javascript,${encodeURIComponent(`
  import { createRequire, registerHooks } from "node:module";
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (/miniflare.dist.src.index/.test(url)) console.log(/_GROWTH = (\\d+)/.exec(String(loaded.source))[1]);
      return loaded;
    },
  });
  createRequire(${JSON.stringify(WRANGLER)})("miniflare");`)}`;

it("what a runtime is told is written in steps of four megabytes, and not of the four kilobytes of the package that writes it", () => {
  const steps = (...first: string[]) => {
    const args = [...first.flatMap((one) => ["--import", one]), "--input-type=module", "--eval", `import ${JSON.stringify(SAYS)}`];
    return execFileSync(process.execPath, args, { encoding: "utf8" }).trim();
  };
  expect([steps(), steps(join(ROOT, "src/cli/local/larger-steps.ts"))]).toEqual(["4096", "4194304"]);
});
