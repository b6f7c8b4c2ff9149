/**
 * The dashboard's pages, as built into `dist/dashboard`, read once at startup. A request is looked up among the names
 * of these files and never becomes a path, so path traversal is not possible.
 *
 *   /                                                browsers are redirected to /dashboard; other clients get 404
 *   /favicon.ico                                     redirects to the dashboard's icon
 *   /dashboard and each path below without a file    index.html: the application routes the path itself
 *   /dashboard/assets/NAME-HASH.js …                 cached forever: other content has another name
 *
 * A file can have a `.br` and a `.gz` variant next to it, which are sent to browsers that accept them.
 */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ApiError } from '../../contract/errors.ts'
import type { Header } from './response.ts'
import type { ApiReply, Route } from './route.ts'
import { readStoredFile, type StoredFile, storedBody } from './stored-file.ts'

/** The folder in this package. The path is the same for a built daemon and for one that runs from its sources. */
const built = fileURLToPath(new URL('../../../dist/dashboard/', import.meta.url))

const contentTypes: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
}

interface Page extends StoredFile {
  headers: readonly Header[]
}

/** If the dashboard is not built, every page explains how to build it. */
export function dashboardPages(directory = built): Route[] {
  const files = readFiles(directory)
  const index = files.get('index.html')
  const page = route('', async ({ headers }) => {
    if (index === undefined) return notBuilt
    return fileReply(index, headers['accept-encoding'] ?? '')
  })
  const assets = [...files].map(([name, file]) =>
    route(`/${name}`, async ({ headers }) => fileReply(file, headers['accept-encoding'] ?? '')),
  )
  return [page, { ...page, path: '/dashboard/' }, { ...page, path: '/dashboard/*' }, ...assets, root, icon]
}

/** The address that the daemon logs at startup, for operators who open it in a browser. */
const root: Route = {
  ...route('', async ({ headers }) => {
    if (!(headers.accept ?? '').includes('text/html')) throw new ApiError('not_found')
    return redirect('/dashboard')
  }),
  path: '/',
  auth: 'none',
}

const icon: Route = {
  ...route('', async () => redirect('/dashboard/favicon.svg')),
  path: '/favicon.ico',
  auth: 'none',
}

function redirect(to: string): ApiReply {
  return {
    status: 302,
    headers: [
      ['Location', to],
      ['Vary', 'Accept'],
    ],
  }
}

function route(name: string, handler: Route['handler']): Route {
  const path = `/dashboard${name}`
  return { method: 'GET', path, operationId: 'dashboard', surface: 'management', auth: 'page', handler }
}

/** The files by their names relative to the directory, with slashes. */
function readFiles(directory: string): Map<string, Page> {
  const files = new Map<string, Page>()
  if (!existsSync(directory)) return files
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    const extension = path.extname(entry.name)
    if (!entry.isFile() || contentTypes[extension] === undefined) continue
    const file = path.join(entry.parentPath, entry.name)
    const name = path.relative(directory, file).split(path.sep).join('/')
    const isHashed = name.startsWith('assets/')
    files.set(name, {
      ...readStoredFile(file),
      headers: [
        ['Content-Type', contentTypes[extension]],
        ['Cache-Control', isHashed ? 'public, max-age=31536000, immutable' : 'no-store'],
        ['Vary', 'Accept-Encoding'],
      ],
    })
  }
  return files
}

function fileReply(page: Page, accepted: string): ApiReply {
  const { encoding, body } = storedBody(page, accepted)
  const own: Header[] = encoding === null ? [] : [['Content-Encoding', encoding]]
  return { status: 200, body, headers: [...page.headers, ...own] }
}

const notBuilt: ApiReply = {
  status: 404,
  body: Buffer.from(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>pipectl</title>
<h1>The dashboard is not built</h1>
<p>This checkout has not been built. Run <code>npm run build</code>, then restart the daemon.</p>
<p>Packages made with <code>npm run package</code> contain the dashboard. To serve no dashboard, set <code>dashboard = "off"</code>.</p>
</html>
`,
  ),
  headers: [['Content-Type', 'text/html; charset=utf-8']],
}
