/** The client as the module /v1/pipectl.mjs of the daemon exports it: the address first, then options. */
import { createClient } from './browser.ts'
import type { Client, ClientOptions } from './types.ts'

export type * from './types.ts'
export { createClient }

export function pipectl<R extends object = object>(
  url: string,
  options: Omit<ClientOptions, 'url'> = {},
): Client<R> {
  return createClient({ ...options, url })
}
