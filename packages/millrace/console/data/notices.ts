import { cell } from "./cell.ts";
import { session } from "./session.ts";

export interface Notice {
  said: string;
  href?: string | undefined;
}

export const notices = cell<readonly Notice[]>([]);

/** Shows a notice on any screen until it is dismissed. */
export function tell(notice: Notice): void {
  if (session.get().state !== "out") notices.set([...notices.get(), notice]);
}

export function takeAway(notice: Notice): void {
  notices.set(notices.get().filter((one) => one !== notice));
}

// Notices are removed at a sign-out, because the next sign-in may be for another tenant.
session.listen(({ state }) => state === "out" && notices.set([]));

/** The number of items that need an operator, which the tab's title shows. The number is 0 on a screen that does not count such items. */
export const needed = cell(0);
