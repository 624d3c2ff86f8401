import { notRetryable } from "millrace";
import { type back, effect } from "../operate/operating.ts";

export const noFunds = () => notRetryable("No funds.");
export const down = () => new Error("The card service is down.");

/** A card payment that is refused the first `times` times, and fallback effects. `asked` lists the requests in order. */
export function shop({ error = noFunds, times = 1 }: { error?: () => Error; times?: number } = {}) {
  const asked: string[] = [];
  const tried = () => asked.filter((one) => one === "card").length;
  const card = effect("keyed", async () => {
    asked.push("card");
    if (tried() <= times) throw error();
    return "card";
  });
  const act = (name: string, of: "keyed" | "natural" = "keyed", undone?: ReturnType<typeof back>) =>
    effect(
      of,
      async () => {
        asked.push(name);
        return name;
      },
      undone ? { undo: undone } : {},
    );
  return { asked, card, act };
}
