import { walk } from '../../support/guide-walker.ts'

await walk('object-store')
