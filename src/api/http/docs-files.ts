/**
 * Serves the guides, as built into `dist/docs`. They need no authentication, because they contain nothing about this
 * daemon. The names of the files are listed once at startup. A request is looked up among them and never becomes a
 * path; the file is read on each request.
 *
 *   /docs        redirects to /docs/: links between the pages are relative
 *   /docs/       index.html
 *   /docs/*      404.html
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ApiError } from '../../contract/errors.ts'
import type { Header } from './response.ts'
import type { ApiReply, Route } from './route.ts'
import { isKnownTag } from './stored-file.ts'

/** The folder in this package. The path is the same for a built daemon and for one that runs from its sources. */
const built = fileURLToPath(new URL('../../../dist/docs/', import.meta.url))

const contentTypes: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
}

/** The pages have no forms and one script, whose search index is a script as well. */
const common: readonly Header[] = [
  [
    'Content-Security-Policy',
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  ],
  ['X-Frame-Options', 'DENY'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
]

export function docsPages(directory = built): Route[] {
  const names = existsSync(directory) ? namesBelow(directory) : []
  if (!names.includes('index.html')) return [route('', notBuilt), route('/', notBuilt), route('/*', notBuilt)]
  const page = (name: string): Route['handler'] => {
    const file = path.join(directory, name)
    return ({ headers }) => fileReply(file, headers['if-none-match'])
  }
  return [
    route('', async () => ({ status: 307, headers: [...common, ['Location', 'docs/']] })),
    route('/', page('index.html')),
    ...names.map((name) => route(`/${name}`, page(name))),
    route('/*', async () => ({ ...(await fileReply(path.join(directory, '404.html'))), status: 404 })),
  ]
}

function route(name: string, handler: Route['handler']): Route {
  return {
    method: 'GET',
    path: `/docs${name}`,
    operationId: 'docs',
    surface: 'management',
    auth: 'none',
    handler,
  }
}

/** The names of all files relative to the directory, with slashes. */
function namesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
    .map((name) => name.split(path.sep).join('/'))
}

/** Browsers cache the file and revalidate it on each use. */
async function fileReply(file: string, known?: string): Promise<ApiReply> {
  const body = await readFile(file)
  const tag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  const headers: Header[] = [...common, ['Cache-Control', 'no-cache'], ['ETag', tag]]
  if (isKnownTag(tag, known)) return { status: 304, headers }
  const type = contentTypes[path.extname(file)] ?? 'text/plain; charset=utf-8'
  return { status: 200, body, headers: [...headers, ['Content-Type', type]] }
}

/** The response of a checkout that was not built. */
async function notBuilt(): Promise<ApiReply> {
  throw new ApiError('not_found', { message: 'The guides are not built: run `npm run build`.' })
}
