/* The 20 questions that are answered right least often, with the two wrong answers chosen most */
WITH questions_answered AS (
  SELECT question_id, count(*) AS answers, count(*) FILTER (WHERE is_correct) AS correct
  FROM answers
  GROUP BY question_id
),
wrong_answers AS (
  SELECT question_id, selected_answer, count(*) AS chosen
  FROM answers
  WHERE NOT is_correct AND selected_answer IS NOT NULL
  GROUP BY question_id, selected_answer
),
wrong_ranked AS (
  SELECT
    question_id,
    selected_answer,
    chosen,
    row_number() OVER (PARTITION BY question_id ORDER BY chosen DESC, selected_answer) AS place
  FROM wrong_answers
),
wrong_most AS (
  SELECT
    question_id,
    max(CASE WHEN place = 1 THEN selected_answer END) AS wrong_answer,
    max(CASE WHEN place = 1 THEN chosen END) AS wrong_answer_chosen,
    max(CASE WHEN place = 2 THEN selected_answer END) AS second_wrong_answer,
    max(CASE WHEN place = 2 THEN chosen END) AS second_wrong_answer_chosen
  FROM wrong_ranked
  GROUP BY question_id
),
texts AS (
  SELECT question_id, max(question_text) AS question_text, max(correct_answer) AS correct_answer
  FROM questions
  GROUP BY question_id
)
SELECT
  q.question_id,
  t.question_text,
  q.answers,
  q.correct,
  cast(q.correct AS double) / q.answers AS correct_rate,
  t.correct_answer,
  w.wrong_answer,
  w.wrong_answer_chosen,
  w.second_wrong_answer,
  w.second_wrong_answer_chosen
FROM questions_answered AS q
LEFT JOIN wrong_most AS w ON w.question_id = q.question_id
LEFT JOIN texts AS t ON t.question_id = q.question_id
ORDER BY cast(q.correct AS double) / q.answers, q.answers DESC, q.question_id NULLS LAST
LIMIT 20
