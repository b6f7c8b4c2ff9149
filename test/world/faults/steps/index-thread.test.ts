/** Every step of the roll of a large segment, whose index by pipe is created in a thread, fails or is the last. */
import { testSteps } from '../step-tests.ts'

testSteps('index thread')
