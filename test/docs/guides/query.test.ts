/** The guide to queries on SQLite files. */
import { walk } from '../../support/guide-walker.ts'

await walk('query')
