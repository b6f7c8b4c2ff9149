/**
 * /v1/pipectl.js and /v1/pipectl.mjs: the script with which web pages of any origin send records, as built into
 * `dist/browser`. Every listener serves it: a page that can reach ingest can load it. It contains nothing about this
 * daemon, so any origin can read it.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ApiError } from '../../contract/errors.ts'
import type { Header } from './response.ts'
import type { ApiReply, Route } from './route.ts'
import { isKnownTag, readStoredFile, storedBody } from './stored-file.ts'

/** The folder in this package. The path is the same for a built daemon and for one that runs from its sources. */
const built = fileURLToPath(new URL('../../../dist/browser/', import.meta.url))

const names = ['pipectl.js', 'pipectl.mjs']
/** Browsers cache the script for an hour and then revalidate it: another version of the daemon has another script. */
const common: readonly Header[] = [
  ['Content-Type', 'text/javascript; charset=utf-8'],
  ['Cache-Control', 'public, max-age=3600'],
  ['Access-Control-Allow-Origin', '*'],
  ['Cross-Origin-Resource-Policy', 'cross-origin'],
  ['Vary', 'Accept-Encoding'],
]

export function browserFiles(directory = built): Route[] {
  return names.map((name) => ({
    method: 'GET',
    path: `/v1/${name}`,
    operationId: 'browserFile',
    surface: 'all',
    auth: 'none',
    handler: existsSync(`${directory}${name}`) ? served(`${directory}${name}`) : notBuilt,
  }))
}

function served(path: string): Route['handler'] {
  const file = readStoredFile(path)
  const hash = createHash('sha256').update(file.plain).digest('base64url')
  return async ({ headers }) => {
    const { encoding, body } = storedBody(file, headers['accept-encoding'] ?? '')
    // A strong tag: it identifies exactly these bytes.
    const tag = `"${hash.slice(0, 22)}${encoding === null ? '' : `-${encoding}`}"`
    const own: Header[] = [...common, ['ETag', tag]]
    if (isKnownTag(tag, headers['if-none-match'])) return { status: 304, headers: own }
    return { status: 200, body, headers: encoding === null ? own : [...own, ['Content-Encoding', encoding]] }
  }
}

/** The response of a checkout that was not built. */
async function notBuilt(): Promise<ApiReply> {
  throw new ApiError('not_found', { message: 'The script is not built: run `npm run build`.' })
}
