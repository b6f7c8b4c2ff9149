/**
 * The dashboard's pages: what its build left in `dist/dashboard`, read once at the start. A request is looked up among
 * those names and never becomes a path, so there is nothing to climb out of.
 *
 *   /                                                   a browser is sent to /dashboard; others get 404 as for any unknown path
 *   /favicon.ico                                        to the dashboard's icon
 *   /dashboard, and everything below that is no file    index.html: the application finds its own way
 *   /dashboard/assets/NAME-HASH.js …                    for ever in caches: another content has another name
 *
 * A file can have a `.br` and a `.gz` next to it, which are sent to browsers that accept them.
 */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { ApiError } from '../../contract/errors.ts'
import type { Header } from './response.ts'
import type { ApiReply, Route } from './route.ts'
import { readStoredFile, type StoredFile, storedBody } from './stored-file.ts'

/** The folder in this package, whether it is built or run from its sources. */
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

/** Where nothing is built, every page says how to. */
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

/** The address that the daemon logs at its start, opened in a browser. */
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

/** By its name below the directory, with slashes. */
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
<p>This is a checkout without it. Run <code>npm run build</code>, then start the daemon again.</p>
<p>The package of <code>npm run package</code> has it built in; <code>dashboard = "off"</code> serves nothing here.</p>
</html>
`,
  ),
  headers: [['Content-Type', 'text/html; charset=utf-8']],
}
