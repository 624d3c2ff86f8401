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
    means: "The limit of concurrent bulk actions of your tenant is reached.",
    next: "Wait until one ends, or abort one. GET /v1/bulk-actions lists them.",
  },
  more_matched: {
    status: 409,
    title: "More items match than allowed",
    means: "More items match the filter now than `at_most` allows. The bulk action did not start.",
    next: "Repeat the dry run and send its count as `at_most`, or narrow the filter, for example with `until`.",
  },
} as const;
