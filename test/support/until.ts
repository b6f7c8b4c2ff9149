/**
 * Waits for a condition instead of sleeping: polls until it answers something truthy, else fails with what it waited for.
 * The limit only ends a test that hangs; a busy machine takes its time.
 */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  { timeoutMs = 120_000, everyMs = 20 } = {},
): Promise<NonNullable<T>> {
  const deadline = Date.now() + timeoutMs
  let lastError: unknown
  for (;;) {
    try {
      const value = await condition()
      if (value) return value
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    if (Date.now() > deadline)
      throw new Error(`waited ${timeoutMs} ms in vain: ${what}`, { cause: lastError })
    await new Promise((resolve) => setTimeout(resolve, everyMs))
  }
}
