/** What the embedded programs accept where the variable that would hold the secret is unset. They are reachable by binding only. */
export const EMBEDDED_TOKEN = "embedded";
/** The account of the embedded social server where `SOCIAL_HANDLE` is unset. */
export const EMBEDDED_HANDLE = "brand.test";
