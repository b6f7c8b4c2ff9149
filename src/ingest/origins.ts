/** Whether a browser's Origin may use a pipe: spec "Authentication", rules 6 and 7. No headers here, only the judgement. */
import type { ErrorCode } from '../contract/errors.ts'
import type { DirectoryPipe } from './directory.ts'

export interface OriginVerdict {
  /** What `Access-Control-Allow-Origin` may echo; null: nothing. */
  echo: string | null
  /** Why the request is refused on account of its Origin; null: it is not. */
  refusal: ErrorCode | null
}

const standardOrigin = /^https?:\/\/(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

/** `origin` is the header as sent, '' when absent. Browsers send hosts in lower case; others are compared so too. */
export function judgeOrigin(entry: DirectoryPipe, origin: string): OriginVerdict {
  return entry.pipe.pipe_api_key_required ? withKey(entry, origin) : withoutKey(entry, origin)
}

/** Rule 6: the key is what protects the pipe; an Origin is only compared when there is something to compare it with. */
function withKey(entry: DirectoryPipe, origin: string): OriginVerdict {
  if (origin === '') return { echo: null, refusal: null }
  const isStandard = standardOrigin.test(origin)
  if (entry.pipe.pipe_allow_any_browser_origin) return isStandard ? allowed(origin) : forbidden
  if (entry.allowedOrigins.size === 0) return { echo: isStandard ? origin : null, refusal: null }
  return entry.allowedOrigins.has(origin.toLowerCase()) ? allowed(origin) : forbidden
}

/** Rule 7: the Origin is all there is. */
function withoutKey(entry: DirectoryPipe, origin: string): OriginVerdict {
  if (origin === '') return { echo: null, refusal: 'unauthorized' }
  if (entry.pipe.pipe_allow_any_browser_origin)
    return standardOrigin.test(origin) ? allowed(origin) : forbidden
  if (entry.allowedOrigins.size === 0) return { echo: null, refusal: 'configuration_error' }
  return entry.allowedOrigins.has(origin.toLowerCase()) ? allowed(origin) : forbidden
}

const forbidden: OriginVerdict = { echo: null, refusal: 'forbidden' }

function allowed(origin: string): OriginVerdict {
  return { echo: origin, refusal: null }
}
