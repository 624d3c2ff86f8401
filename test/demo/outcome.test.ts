import { expect, it } from "vitest";
import { differences, type Outcome } from "../../demo/outcome.ts";

const page = { keyword: "k", url: "http://localhost/pages/k", status: 200, title: "K", hasTitle: true };
const good: Outcome = {
  pages: [page, page, page],
  totals: { search: { charged: 3 }, text: { charged: 6, repeated: 1 }, pages: { created: 3, refused: 3 }, social: { created: 3 } },
  messages: {
    "brand.cycle": 1,
    "research.requested": 3,
    "research.completed": 3,
    "content.generated": 3,
    "content.publish": 3,
    "social.create": 3,
    "content.published": 3,
    "social.posted": 3,
  },
};

it("a job with the expected result shows no difference", () => {
  expect(differences(good)).toEqual([]);
});

it("every difference from the expected result of the demo is reported as a sentence", () => {
  const wrong: Outcome = {
    pages: [
      { ...page, status: 404 },
      { ...page, hasTitle: false },
    ],
    totals: { ...good.totals, text: { charged: 7 }, social: {} },
    messages: { ...good.messages, "social.posted": 2 },
  };
  expect(differences(wrong)).toEqual([
    "2 pages were published instead of 3.",
    "http://localhost/pages/k returned 404 instead of 200.",
    "http://localhost/pages/k does not show its title, “K”.",
    "There were 7 texts paid for instead of 6.",
    "There were 0 posts made instead of 3.",
    "The message social.posted was sent 2 times instead of 3.",
  ]);
});
