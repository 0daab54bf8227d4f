//! Cases C. Recovery from every loss: the commands of the pages are run in the situation that they mend.

mod dropping;
mod lives;
mod names;
mod page;
mod remedies;
mod restores;
mod searching;
mod shop;
mod world;
