import { walk } from '../../support/guide-walker.ts'

await walk('parked')
