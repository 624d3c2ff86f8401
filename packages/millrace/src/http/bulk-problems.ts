/** The answers to the codes of bulk actions. */
export const BULK_PROBLEMS = {
  bulk_action_not_found: {
    status: 404,
    title: "No such bulk action",
    means: "No bulk action of your tenant has this id.",
    next: "List them with GET /v1/bulk-actions.",
  },
  bulk_actions_running: {
    status: 409,
    title: "Too many bulk actions run",
    retryable: true,
    means: "As many bulk actions of your tenant run as may at one moment.",
    next: "Wait for one to end, or abort one: GET /v1/bulk-actions lists them.",
  },
  more_matched: {
    status: 409,
    title: "More match than was agreed",
    means: "Since they were counted more have come to match the filter than `at_most` lets be acted upon. Nothing was done.",
    next: "Ask for the dry run again, and send the number that it answers; or narrow the filter, by `until` for one.",
  },
} as const;
