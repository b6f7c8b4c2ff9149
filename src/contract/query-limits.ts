/** Rows and seconds of one query: what applies if the request names none, and the maximum. Without schemas, for clients. */
export const queryLimits = {
  rows: { default: 1_000, max: 10_000 },
  seconds: { default: 5, max: 30 },
} as const
