import { cell } from "./cell.ts";
import { session } from "./session.ts";

/** What came of something that is not shown any more. */
export interface Notice {
  said: string;
  /** Where it led to. */
  href?: string | undefined;
}

export const notices = cell<readonly Notice[]>([]);

/** Says something whatever screen is shown; it stays until it is taken away. */
export function tell(notice: Notice): void {
  if (session.get().state !== "out") notices.set([...notices.get(), notice]);
}

export function takeAway(notice: Notice): void {
  notices.set(notices.get().filter((one) => one !== notice));
}

// Nothing of one tenant is left for another.
session.listen(({ state }) => state === "out" && notices.set([]));
