import { describe, expect, it } from "vitest";
import { mastodonLength, xLength } from "../../../src/providers/index.ts";
import { announcement } from "../../../src/systems/content/announcement.ts";
import { characterCount } from "../../../src/systems/content/cut.ts";

describe("The text of a post", () => {
  const url = `https://shop.example.com/pages/t/acme/${"tea".repeat(60)}`;

  it.each([
    ["mastodon", mastodonLength, 500],
    ["x", xLength, 280],
  ] as const)("the text of a post fits on %s for any title, and ends with the complete URL", (platform, lengthOf, most) => {
    for (const title of [
      "four ".repeat(200),
      "茶".repeat(900),
      "👩‍👩‍👧‍👦".repeat(290),
      "example.com ".repeat(60),
      "a".repeat(900),
      "see node.js",
    ]) {
      const text = announcement({ brand: "acme", title, url }, platform);
      expect(lengthOf(text), title.slice(0, 20)).toBeLessThanOrEqual(most);
      expect(text.endsWith(` ${url}`)).toBe(true);
      expect(text.startsWith("New on acme")).toBe(true);
    }
    expect(announcement({ brand: "acme", title: "Green tea", url }, platform)).toBe(`New on acme: Green tea ${url}`);
    expect(lengthOf(announcement({ brand: "acme", title: "four ".repeat(200), url }, platform))).toBeGreaterThan(most - 8);
  });

  it.each([
    ["mastodon", mastodonLength, 500],
    ["x", xLength, 280],
    ["bluesky", characterCount, 300],
  ] as const)("the text of a post has the description on %s if it fits after the complete title", (platform, lengthOf, most) => {
    const [short, address] = ["A plant, and what to do with it.", "https://a.example/tea"];
    const post = { brand: "acme", title: "Green tea", url: address };
    expect(announcement({ ...post, description: short }, platform)).toBe(`New on acme: Green tea\n\n${short} ${address}`);
    for (const description of ["five ".repeat(200), "茶".repeat(900)]) {
      const text = announcement({ ...post, description }, platform);
      expect(lengthOf(text)).toBeLessThanOrEqual(most);
      expect(lengthOf(text)).toBeGreaterThan(most - 60);
      expect(text.startsWith("New on acme: Green tea\n\n") && text.endsWith(` ${address}`)).toBe(true);
    }
    expect(lengthOf(announcement({ ...post, description: "example.com ".repeat(60) }, platform))).toBeLessThanOrEqual(most);
    expect(announcement({ ...post, title: "four ".repeat(200), description: short }, platform)).not.toContain("\n");
  });

  it("the text of a post notifies no account that a title or a description names", () => {
    const title = "Ask @jack＠ada or mail a@b";
    expect(announcement({ brand: "acme", title: "Tea", description: "By @jack", url: "https://a.example" }, "x")).toContain(
      "By @\u200bjack",
    );
    expect(announcement({ brand: "acme", title, url: "https://a.example" }, "x")).toContain("Ask @\u200bjack＠\u200bada or mail a@\u200bb");
  });
});
