/**
 * Loaded before a program (`--import`), it plants what a broken client library would do: an HTTP answer with the header
 * `x-fatal: throw` ends the thread that reads it with an error nobody catches, `x-fatal: spin` never gives the
 * thread back, `x-fatal: idle` throws when the attempt is over, because of the connection it left.
 */
import { subscribe } from 'node:diagnostics_channel'

subscribe('undici:request:headers', ({ response }) => {
  const texts = response.headers.map(String)
  const kind = texts[texts.indexOf('x-fatal') + 1]
  if (kind === 'spin') for (;;);
  const fail = () => {
    throw new Error('the parser met what it did not expect')
  }
  if (kind === 'throw') process.nextTick(fail)
  if (kind === 'idle') setTimeout(fail, 300)
})
