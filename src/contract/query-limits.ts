/** Limits and failures of a query, without schemas, for clients. Rows and seconds: the default of a request, and the maximum. */
export const queryLimits = {
  rows: { default: 1_000, max: 10_000 },
  seconds: { default: 5, max: 30 },
} as const

/** `reason` of the error `query_failed`. */
export const queryFailures = ['timeout', 'memory', 'locked', 'unreadable'] as const
