import { expect, it } from "vitest";
import document from "../../../docs/brand.md?raw";
import { VERDICTS } from "../../../src/systems/brand/decide.ts";
import { DEFAULT_SETTINGS } from "../../../src/systems/brand/settings.ts";
import { callerWith } from "../../api/client.ts";
import { stands } from "../../systems/brand/brand.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/brand.md prints the output under it", { timeout: 90_000 }, async () => {
  const caller = await callerWith();
  const count = await followDocument(document, {
    given: { TOKEN: caller.token },
    async before({ url }) {
      // A reader has the first cycle's articles when the second cycle starts.
      if (url.endsWith("/v1/brands/coffee/keywords")) await stands(caller, "coffee", { live: 3 });
    },
  });
  expect(count).toBe(21);
});

it("docs/brand.md lists every verdict and every default", () => {
  for (const verdict of VERDICTS) expect(document).toContain(`\n| \`${verdict}\``);
  for (const [name, value] of Object.entries(DEFAULT_SETTINGS)) {
    // The names of a list of targets.
    const said = Array.isArray(value) ? value.map((target) => target.name).join() : value;
    expect(document.replaceAll("`", ""), name).toMatch(new RegExp(`\\| ${name} +\\| ${said} +\\|`));
  }
});
