/** The token of the embedded programs if the variable of the upstream's secret is unset. Only bindings can reach the embedded programs. */
export const EMBEDDED_TOKEN = "embedded";
/** The account of the embedded social server if `SOCIAL_HANDLE` is unset. */
export const EMBEDDED_HANDLE = "brand.test";
/** The id of the embedded CRM's account if `CRM_ACCOUNT` is unset. */
export const PORTAL_ID = 4_224_001;
/** The property of contacts and companies that contains the app's key for a record, if `CRM_ID_PROPERTY` is unset. */
export const ID_PROPERTY = "millrace_id";
